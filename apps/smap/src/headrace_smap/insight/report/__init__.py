"""What people read of a project: a report, its posts, and the list of all projects."""
