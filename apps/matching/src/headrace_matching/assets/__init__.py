"""What workers bring and read: assets, their embeddings and keypoints, matches and evidence.

Every write is one statement that also checks the job's phase, and may be sent again as it was.
"""

from headrace.tables import Statements

STATEMENTS = Statements(__package__, repeatable=True)
