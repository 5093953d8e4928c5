"""Orders: stock, payment and shipment in a database of their own, with handlers whose effects are fenced there."""
