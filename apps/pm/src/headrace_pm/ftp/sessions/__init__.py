"""Connections by protocol: FTP and FTPS in threads, SFTP on the event loop; one face for both."""
