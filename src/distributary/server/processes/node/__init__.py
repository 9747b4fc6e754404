"""A server that shares log and store with others: its receivers, and the lead of the cluster."""
