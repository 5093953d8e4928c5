"""MySQL and MariaDB: tables of an application. No store: the account lives elsewhere."""
