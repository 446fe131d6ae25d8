"""Holds every pattern that a text field of the spec must match, each with the words that say what it asks for."""

from collections.abc import Mapping
from typing import Final

# Digits are bounded so that no sum of four parts passes the 292 years that the API server can hold in a duration.
DURATION: Final = r"^([0-9]{1,5}(\.[0-9]{1,3})?(s|m|h)|[0-9]{1,8}(\.[0-9]{1,3})?ms){1,4}$"
QUANTITY: Final = r"^[0-9]{1,12}(\.[0-9]{1,3})?(Ki|Mi|Gi|Ti|Pi|m|k|M|G|T|P)?$"
FRACTION: Final = r"^(0(\.[0-9]{1,6})?|1(\.0{1,6})?)$"
POSITIVE_DECIMAL: Final = r"^[0-9]{1,9}(\.[0-9]{1,6})?$"
PERCENTAGE: Final = r"^(0|[1-9][0-9]{0,3}|0%|[1-9][0-9]?%|100%)$"
_DNS_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
OBJECT_NAME: Final = rf"^{_DNS_LABEL}(\.{_DNS_LABEL})*$"
NAMESPACE: Final = r"^[a-z0-9]+(-+[a-z0-9]+)*$"
SECRET_KEY: Final = r"^[-._a-zA-Z0-9]+$"  # noqa: S105 - a pattern
LABEL_VALUE: Final = r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$"
SERVED_NAME: Final = r"^[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?$"
# \s means other characters to the API server than to pydantic, so visible ASCII is spelled out.
SOURCE: Final = r"^(hf|s3|pvc|file|gs|oci)://[!-~]+$"
SPEED: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
ENV_NAME: Final = r"^[-._a-zA-Z][-._a-zA-Z0-9]*$"
ENGINE_VERSION: Final = r"^[0-9A-Za-z][0-9A-Za-z.+_-]*$"
IMAGE: Final = r"^[!-~]+$"
QUANTIZATION: Final = r"^[a-z0-9][a-z0-9_.-]*$"
RESOURCE_NAME: Final = rf"^{_DNS_LABEL}(\.{_DNS_LABEL})*/[A-Za-z0-9]([-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?$"
FIELD_PATH: Final = (
    r"^(metadata\.(name|namespace|uid)|metadata\.(labels|annotations)\['[-A-Za-z0-9_./]+'\]|"
    r"spec\.(nodeName|serviceAccountName)|status\.(hostIP|hostIPs|podIP|podIPs))$"
)

WORDS: Final[Mapping[str, str]] = {
    DURATION: "a duration such as 500ms, 30s, 5m or 1h30m",
    QUANTITY: "a quantity without sign, such as 24, 500m or 200Gi",
    FRACTION: 'a quoted decimal from 0 to 1, such as "0.95"',
    POSITIVE_DECIMAL: 'a quoted decimal without sign, such as "39.3"',
    PERCENTAGE: "a number of pods, or a percentage such as 25%",
    OBJECT_NAME: "the name of an object: lower-case letters, digits, - and . with a letter or digit at both ends",
    NAMESPACE: "the name of a namespace: lower-case letters, digits and - with a letter or digit at both ends",
    SECRET_KEY: "a key made of letters, digits, - _ and .",
    LABEL_VALUE: "a label value: letters, digits, - _ and . with a letter or digit at both ends",
    SERVED_NAME: "a served name: letters, digits and . _ / - with a letter or digit at both ends",
    SOURCE: "hf://owner/repo@revision, s3://bucket/prefix, pvc://claim/path or file:///path",
    SPEED: "lower-case letters, digits and - with a letter or digit at both ends, such as fast",
    ENV_NAME: "the name of a variable: letters, digits, - _ and . without a digit in front",
    ENGINE_VERSION: "a version such as 0.32.0",
    IMAGE: "an image such as registry/repository:tag, without spaces",
    QUANTIZATION: "the engine's own name in lower case, such as fp8",
    FIELD_PATH: "a field that a pod may read of itself, such as status.podIP or metadata.labels['app']",
    RESOURCE_NAME: "an extended resource such as nvidia.com/gpu",
}
