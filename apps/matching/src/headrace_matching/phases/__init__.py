"""The phase manager: jobs, the events that close their phases, and the one announcement of each phase entered.

Tables and the engine's account are one store. An event is written down, counted and told to the engine in one
transaction; the engine's barriers decide when all that a phase waits for has come.
"""

from headrace.tables import Statements

STATEMENTS = Statements(__package__)
