"""Commands of RocketMQ's admin tool that texts hand to their readers, as templates (`rule.Texts`).

Each was run as printed on live brokers of every line (`tests/live/test_printed_commands.py`, docs/messages.md); where
only some versions have one, it is left out for the others (its figures are not known then). One that deletes says so in
a comment, in the reader's language, and comes last. A time is given in ms
since 1970: what people write as a date means another moment on a host in another time zone.
"""

_TO = " -n {name_servers:shell}"
_OF_CLUSTER = _TO + " -c {rocketmq_cluster:shell}"
_OF_GROUP = _TO + " -g {consumer_group:shell}"
_TO_REFUSING = " -b {refusing_addresses:each}"
_RESET = "mqadmin resetOffsetByTime" + _OF_GROUP + " -t {topic:shell} -s "
_TO_WANTED_QUEUES = " -r {wanted_queue_nums} -w {wanted_queue_nums}"
_MESSAGE_AT = "mqadmin queryMsgByOffset" + _TO + " -t {topic:shell} -b {broker_name:shell} -i {queue_id} -o "

BROKER_STATUS = "mqadmin brokerStatus" + _OF_CLUSTER
CLUSTER_LIST = "mqadmin clusterList" + _TO
DELETE_GROUP = "mqadmin deleteSubGroup" + _OF_CLUSTER + " -g {consumer_group:shell} -r true  # {what_it_deletes}"
LET_CONSUME = "mqadmin updateSubGroup" + _OF_GROUP + _TO_REFUSING + " {enabling_options}"
LET_READ_BROKER = "mqadmin updateBrokerConfig" + _TO + _TO_REFUSING + " -k brokerPermission -v 6"
LET_READ_TOPIC = "mqadmin updateTopicPerm" + _TO + _TO_REFUSING + " -t {topic:shell} -p 6"
MEMBERS = "mqadmin consumerConnection" + _OF_GROUP
MEMBERS_OF_EACH_BROKER = MEMBERS + " -b {master_addresses:each}"
PRODUCERS_OF_EACH_BROKER = "mqadmin producer -b {master_addresses:each}" + _TO
PROGRESS = "mqadmin consumerProgress" + _OF_GROUP
PROGRESS_BY_CLIENT = PROGRESS + " -s true"
PRINT_GIVEN_UP = "mqadmin consumeMessage" + _TO + " -t TRANS_CHECK_MAX_TIME_TOPIC"
REPLICATION = "mqadmin haStatus" + _TO + " -c {cluster_with_ha_status:shell}"
RATES_OF_CLIENTS = "mqadmin consumerStatus" + _OF_GROUP
RESET_TO_BEFORE = _RESET + "{moved_after:unix_ms}"
RESET_TO_MOVE = _RESET + "{first_moved_at:unix_ms}"
RESET_TO_SINCE = _RESET + "{since:unix_ms}"
RETAIN_LONGER = "mqadmin updateBrokerConfig" + _OF_CLUSTER + " -k fileReservedTime -v {longer_hours}"
SET_QUEUES = "mqadmin updateTopic" + _OF_CLUSTER + " -t {topic:shell}" + _TO_WANTED_QUEUES
SET_QUEUES_OF_LAGGING = "mqadmin updateTopic" + _OF_CLUSTER + " -t {lagging_topic:shell}" + _TO_WANTED_QUEUES
SHOW_BLOCKING = _MESSAGE_AT + "{blocked_offset}"
SHOW_COMMITTED = _MESSAGE_AT + "{consumer_offset}"
STACKS_GO = "Each client's threads go into a file, which this names:"
STACKS_GO_ZH = "每个客户端的线程会写入一个文件，命令会给出文件名："
STACKS = RATES_OF_CLIENTS + " -s"
STACK_OF_CLIENT = RATES_OF_CLIENTS + " -i {client_id:shell} -s"
STACK_OF_HOLDER = RATES_OF_CLIENTS + " -i {holder_client_id:shell} -s"
WHERE_DEAD_LETTERS_LIE = "mqadmin topicStatus" + _TO + " -t {dead_letter_topic:shell}"
