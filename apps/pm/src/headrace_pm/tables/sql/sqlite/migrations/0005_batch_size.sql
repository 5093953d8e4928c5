-- How many counters the batches of its checkpoints have: with others a checkpoint says nothing.
ALTER TABLE pm_file_revision ADD COLUMN batch_size INTEGER;
