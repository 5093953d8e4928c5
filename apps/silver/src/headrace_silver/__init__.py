"""silver: the worker of a stock-market silver layer.

Producers put daily bars (`ta.bar`) and articles (`sa.article`) into the table `task_q`. The worker takes a batch,
judges every record by cheap rules, writes the good ones with set-based upserts, lays the bad ones aside as dead
letters and says by a flag whether the queue is too long: one transaction per batch, one worker at a time.

The walk of a batch: `records/payloads` (text to draft) → `rules` and `judgement` (draft to record or reject) → `folds`
(one record per natural key) → one of the `stores`, driven by `queue/consumer`.
"""
