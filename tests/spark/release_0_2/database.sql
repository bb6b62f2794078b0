BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0001');
CREATE TABLE incidents (
	incident_id VARCHAR(32) NOT NULL, 
	open_key VARCHAR(64), 
	cluster VARCHAR(255) NOT NULL, 
	rule_id VARCHAR(255) NOT NULL, 
	consumer_group VARCHAR(255), 
	topic VARCHAR(255), 
	severity VARCHAR(255) NOT NULL, 
	state VARCHAR(255) NOT NULL, 
	opened_at DATETIME NOT NULL, 
	last_seen_at DATETIME NOT NULL, 
	seen_count BIGINT NOT NULL, 
	unknown_since DATETIME, 
	resolved_at DATETIME, 
	resolution TEXT, 
	record_json TEXT NOT NULL, 
	CONSTRAINT pk_incidents PRIMARY KEY (incident_id), 
	CONSTRAINT uq_incidents_open_key UNIQUE (open_key)
);
CREATE TABLE judged_intervals (
	cluster VARCHAR(255) NOT NULL, 
	interval_start DATETIME NOT NULL, 
	judged_at DATETIME NOT NULL, 
	mode VARCHAR(255) NOT NULL, 
	finding_count BIGINT NOT NULL, 
	opened_count BIGINT NOT NULL, 
	resolved_count BIGINT NOT NULL, 
	message_count BIGINT NOT NULL, 
	CONSTRAINT pk_judged_intervals PRIMARY KEY (cluster, interval_start)
);
CREATE TABLE notification_log (
	id INTEGER NOT NULL, 
	outbox_id INTEGER NOT NULL, 
	channel VARCHAR(255) NOT NULL, 
	receiver VARCHAR(255) NOT NULL, 
	thread_key VARCHAR(255) NOT NULL, 
	accepted_at DATETIME NOT NULL, 
	receipt TEXT NOT NULL, 
	CONSTRAINT pk_notification_log PRIMARY KEY (id), 
	CONSTRAINT uq_notification_log_outbox_id UNIQUE (outbox_id), 
	CONSTRAINT fk_notification_log_outbox_id FOREIGN KEY(outbox_id) REFERENCES outbox (id)
);
CREATE TABLE outbox (
	id INTEGER NOT NULL, 
	idempotency_key VARCHAR(64) NOT NULL, 
	channel VARCHAR(255) NOT NULL, 
	receiver VARCHAR(255) NOT NULL, 
	team VARCHAR(255) NOT NULL, 
	cluster VARCHAR(255) NOT NULL, 
	rule_id VARCHAR(255) NOT NULL, 
	thread_key VARCHAR(255) NOT NULL, 
	interval_start DATETIME NOT NULL, 
	view_json TEXT NOT NULL, 
	created_at DATETIME NOT NULL, 
	status VARCHAR(255) NOT NULL, 
	attempts BIGINT NOT NULL, 
	next_attempt_at DATETIME NOT NULL, 
	claimed_until DATETIME, 
	last_error TEXT, 
	CONSTRAINT pk_outbox PRIMARY KEY (id), 
	CONSTRAINT uq_outbox_idempotency_key UNIQUE (idempotency_key)
);
CREATE TABLE published_intervals (
	cluster VARCHAR(255) NOT NULL, 
	interval_start DATETIME NOT NULL, 
	run_id TEXT NOT NULL, 
	published_at DATETIME NOT NULL, 
	verdict VARCHAR(255) NOT NULL, 
	snapshot_ids JSON NOT NULL, 
	manifest_json TEXT NOT NULL, 
	CONSTRAINT pk_published_intervals PRIMARY KEY (cluster, interval_start)
);
INSERT INTO "published_intervals" VALUES('demo','2026-11-21 10:39:00.000000','20261121T103900Z_9a1cefc0beab','2026-11-21 10:41:00.000000','audited: 46 rows in 16 tables, 2 violations, 2 rows in quarantine','{"queue_snapshots": 7206178055311690302, "topic_queue_snapshots": 149864867404808760, "topic_settings": 3877330059502559304, "group_snapshots": 2000644495671408238, "client_snapshots": 2934008109536479533, "client_queue_snapshots": 7934915448569340445, "broker_snapshots": 1178915836556089623, "broker_stats": 8732932775824962650, "offset_moves": 7687198393322236244, "log_events": 5095971711093583704, "queue_facts": 792809535798034413, "group_facts": 2798557688738710684, "topic_facts": 7512583751684258357, "offset_move_facts": 1550731013382143158, "invariant_results": 7970845373817958791, "quarantine": 460469603627551147}','{"format":1,"cluster":"demo","interval_start":"2026-11-21T10:39:00Z","started_at":"2026-11-21T10:39:05Z","finished_at":"2026-11-21T10:39:06Z","requests":{"asked":0,"answered":0,"refused":0,"timed_out":0,"unreachable":0,"connection_lost":0,"undecodable":0,"not_recorded":0},"gaps":[],"gap_count":0,"gap_kinds":{},"row_counts":{"queue_snapshots":5,"topic_queue_snapshots":2,"topic_settings":2,"group_snapshots":2,"client_snapshots":1,"client_queue_snapshots":1,"broker_snapshots":2,"broker_stats":1,"offset_moves":1,"log_events":1,"undecodable_records":1},"event_cursors":[],"log_cursors":[],"not_asked":[],"master_broker_names":[],"unseen_broker_names":[],"missing_masters":[],"cluster_unseen":false}');
CREATE INDEX ix_incidents_cluster_opened_at ON incidents (cluster, opened_at);
CREATE INDEX ix_outbox_status_next_attempt_at ON outbox (status, next_attempt_at);
CREATE INDEX ix_outbox_last_sent ON outbox (team, cluster, rule_id, interval_start);
CREATE INDEX ix_notification_log_thread ON notification_log (thread_key, receiver);
COMMIT;
