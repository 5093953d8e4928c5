-- The rule of an item that died with its workers has the name that the documentation gives it.
UPDATE headrace.dead SET rule = 'worker_lost' WHERE reason = 'worker_lost' AND rule = 'crashes_max';
