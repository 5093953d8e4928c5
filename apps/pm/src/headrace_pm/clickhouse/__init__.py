"""From Kafka into ClickHouse where its Kafka engine does not run: large blocks, each of them once, poison set aside."""
