"""pm: telecom performance files from FTP into MySQL and Kafka, each downloaded once and every counter written once."""
