"""The ledger of projects, which all services see: in Redis, or in a store of headrace."""
