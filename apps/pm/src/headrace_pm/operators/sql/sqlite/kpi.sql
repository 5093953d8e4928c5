-- name: kpi_totals
-- Which records there are is one step in the primary key each, and then each counter of a record is another one: no
-- counter is read that no formula asks for.
SELECT NULL, CAST(unixepoch(d.record_time) / :step_s AS INTEGER), d.counter_id, SUM(d.counter_value), COUNT(d.counter_value),
       MIN(d.counter_value), MAX(d.counter_value), COUNT(*) - COUNT(d.counter_value),
       MIN(d.duration), MAX(d.duration)
  FROM (SELECT ne_id, record_time, duration FROM pm_counter_data
         WHERE ne_id IN (:ne_00, :ne_01, :ne_02, :ne_03, :ne_04, :ne_05, :ne_06, :ne_07, :ne_08, :ne_09,
               :ne_10, :ne_11, :ne_12, :ne_13, :ne_14, :ne_15, :ne_16, :ne_17, :ne_18, :ne_19,
               :ne_20, :ne_21, :ne_22, :ne_23, :ne_24, :ne_25, :ne_26, :ne_27, :ne_28, :ne_29,
               :ne_30, :ne_31, :ne_32, :ne_33, :ne_34, :ne_35, :ne_36, :ne_37, :ne_38, :ne_39,
               :ne_40, :ne_41, :ne_42, :ne_43, :ne_44, :ne_45, :ne_46, :ne_47, :ne_48, :ne_49)
           AND record_time >= :first AND record_time < :end AND (:duration IS NULL OR duration = :duration)
         GROUP BY ne_id, record_time, duration) g
  CROSS JOIN json_each(:counters) c
  CROSS JOIN pm_counter_data d ON d.ne_id = g.ne_id AND d.record_time = g.record_time AND d.duration = g.duration
       AND d.counter_id = c.value
 GROUP BY 2, 3

-- name: kpi_totals_by_element
SELECT d.ne_id, CAST(unixepoch(d.record_time) / :step_s AS INTEGER), d.counter_id, SUM(d.counter_value), COUNT(d.counter_value),
       MIN(d.counter_value), MAX(d.counter_value), COUNT(*) - COUNT(d.counter_value),
       MIN(d.duration), MAX(d.duration)
  FROM (SELECT ne_id, record_time, duration FROM pm_counter_data
         WHERE ne_id IN (:ne_00, :ne_01, :ne_02, :ne_03, :ne_04, :ne_05, :ne_06, :ne_07, :ne_08, :ne_09,
               :ne_10, :ne_11, :ne_12, :ne_13, :ne_14, :ne_15, :ne_16, :ne_17, :ne_18, :ne_19,
               :ne_20, :ne_21, :ne_22, :ne_23, :ne_24, :ne_25, :ne_26, :ne_27, :ne_28, :ne_29,
               :ne_30, :ne_31, :ne_32, :ne_33, :ne_34, :ne_35, :ne_36, :ne_37, :ne_38, :ne_39,
               :ne_40, :ne_41, :ne_42, :ne_43, :ne_44, :ne_45, :ne_46, :ne_47, :ne_48, :ne_49)
           AND record_time >= :first AND record_time < :end AND (:duration IS NULL OR duration = :duration)
         GROUP BY ne_id, record_time, duration) g
  CROSS JOIN json_each(:counters) c
  CROSS JOIN pm_counter_data d ON d.ne_id = g.ne_id AND d.record_time = g.record_time AND d.duration = g.duration
       AND d.counter_id = c.value
 GROUP BY 1, 2, 3
