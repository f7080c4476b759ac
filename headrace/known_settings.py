"""All settings of all programs: a variable meant for the gateway is no mistake in the worker's environment."""

from msgspec import Struct

from gateway.settings import GatewaySettings
from headrace.dev_settings import DevSettings
from headrace.topic_settings import TopicSettings
from producer_sdk.setting import settings_of
from producer_sdk.settings import KafkaSettings
from workers.settings import WorkerSettings

SETTINGS_CLASSES: dict[str, type[Struct]] = {
    "Kafka and payloads in S3 (every verb that talks to Kafka)": KafkaSettings,
    "headrace worker": WorkerSettings,
    "headrace gateway": GatewaySettings,
    "headrace dev": DevSettings,
    "headrace topics": TopicSettings,
}
# Variables that are no field: read by failure.py, kafka_jars.py and load_settings itself.
OTHERS = frozenset({"config", "debug", "cache_dir"})
KNOWN = OTHERS | {setting.name for cls in SETTINGS_CLASSES.values() for setting in settings_of(cls)}
