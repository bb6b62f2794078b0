"""RocketMQ from the published jars: clusters, clients, access control, TLS, mqadmin."""
