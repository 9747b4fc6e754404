"""The log on a Kafka cluster: one topic, ``{prefix}.events``, in place of folders of segments.

Callers: the receivers, the leader, the partitions' owners and the search, where ``SharedPlaces``
are set. Hides: confluent-kafka and librdkafka, which are loaded with the first client.

Guarantees: a record whose append was acknowledged is in all replicas in sync, at least as many as
``min.insync.replicas`` of the topic says, and readers see only those. Records that are damaged, or
somebody else's, are reported as ``Damage`` and never delivered. There are no transactions, so
offsets have no holes but those.
"""

from distributary.core.log.kafka._client import topic_of
from distributary.core.log.kafka.appends import KafkaAppends
from distributary.core.log.kafka.ends import NO_ID, KafkaEnds
from distributary.core.log.kafka.records import KafkaRecords
from distributary.core.log.kafka.retention import KafkaRetention
from distributary.core.log.kafka.routes import KafkaRoutes
from distributary.core.log.kafka.searched import KafkaSearchedLog
from distributary.core.log.kafka.snapshots import Cut, MemorySnapshots
from distributary.core.log.kafka.tail import KafkaTail
from distributary.core.log.kafka.topics import prepare_topics
