"""Cron: schedules that create jobs at the moments of a timetable, each moment once."""
