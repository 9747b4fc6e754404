"""Schemas of the core kinds that Knative's refer to: Service, ConfigMap, Namespace, Event.

All fields of Kubernetes are included, so that manifests written for a cluster cause no warning;
descriptions state which fields are used.
"""

from typing import Final

from distributary.knative.apiserver.machinery.schema_words import (
    Schema,
    array,
    flag,
    keyed,
    one_of,
    ref,
    struct,
    text,
    texts,
    time,
    top,
    whole,
)
from distributary.knative.kinds._kinds import CONFIG_MAP, EVENT, NAMESPACE, SECRET, SERVICE
from distributary.resource import SINKS

_CORE: Final = "io.k8s.api.core.v1."

INT_OR_STRING: Final = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
SERVICE_ADDRESS: Final = "distributary.dev/address"
"""Annotation of a Service: ``host:port`` to connect to (decision 25, ``v1/Service``)."""

_PORT_MAX: Final = 65_535
_NOT_USED: Final = " It is kept and not used."
_OF_A_CLUSTER: Final = "Of a cluster." + _NOT_USED

_SERVICE: Final[dict[str, Schema]] = {
    _CORE + "Service": top(
        SERVICE,
        f"A name for a receiver of events over HTTP. The server connects to the annotation"
        f" `{SERVICE_ADDRESS}` (`host:port`), else to `spec.externalName`, else to"
        f" `<name>.<namespace>.svc`.",
        {
            "spec": ref(_CORE + "ServiceSpec", "Desired state."),
            "status": ref(_CORE + "ServiceStatus", "Observed state." + _NOT_USED),
        },
    ),
    _CORE + "ServiceSpec": struct(
        "Spec of a Service.",
        allocateLoadBalancerNodePorts=flag(_OF_A_CLUSTER),
        clusterIP=text("Address in a cluster." + _NOT_USED),
        clusterIPs=array("Addresses in a cluster." + _NOT_USED),
        externalIPs=array("Further addresses." + _NOT_USED),
        externalName=text("Host name to connect to; required if `type` is ExternalName."),
        externalTrafficPolicy=text(_OF_A_CLUSTER),
        healthCheckNodePort=whole(_OF_A_CLUSTER, bits=32),
        internalTrafficPolicy=text(_OF_A_CLUSTER),
        ipFamilies=array(_OF_A_CLUSTER),
        ipFamilyPolicy=text(_OF_A_CLUSTER),
        loadBalancerClass=text(_OF_A_CLUSTER),
        loadBalancerIP=text(_OF_A_CLUSTER),
        loadBalancerSourceRanges=array(_OF_A_CLUSTER),
        ports=keyed(
            _CORE + "ServicePort",
            "Ports of the Service; the first one is used with `externalName`.",
            "port",
            "protocol",
        ),
        publishNotReadyAddresses=flag(_OF_A_CLUSTER),
        selector={**texts("Labels of pods." + _NOT_USED), "x-kubernetes-map-type": "atomic"},
        sessionAffinity=text(_OF_A_CLUSTER),
        sessionAffinityConfig=ref(
            _CORE + "SessionAffinityConfig", "Of `sessionAffinity`." + _NOT_USED
        ),
        trafficDistribution=text(_OF_A_CLUSTER),
        type=one_of(
            "Type of the Service. Default: ClusterIP.",
            "ClusterIP",
            "ExternalName",
            "LoadBalancer",
            "NodePort",
        ),
    ),
    _CORE + "ServicePort": struct(
        "A port of a Service.",
        ("port",),
        appProtocol=text("Protocol of the application." + _NOT_USED),
        name=text("Name of the port; unique in the Service, required if there are several."),
        nodePort=whole(_OF_A_CLUSTER, bits=32, minimum=0, maximum=_PORT_MAX),
        port=whole("Number of the port.", bits=32, minimum=1, maximum=_PORT_MAX),
        protocol=one_of("Transport protocol. Default: TCP.", "SCTP", "TCP", "UDP", default="TCP"),
        targetPort=ref(INT_OR_STRING, "Port of the pods. Default: `port`." + _NOT_USED),
    ),
    _CORE + "SessionAffinityConfig": struct(
        "Of `sessionAffinity`.",
        clientIP=ref(_CORE + "ClientIPConfig", "Of the affinity to a client's address."),
    ),
    _CORE + "ClientIPConfig": struct(
        "Of the affinity to a client's address.",
        timeoutSeconds=whole("Duration, seconds.", bits=32),
    ),
    _CORE + "ServiceStatus": struct(
        "Status of a Service.",
        conditions=keyed("dev.knative.pkg.apis.duck.v1.Condition", "Aspects of it.", "type"),
        loadBalancer=ref(_CORE + "LoadBalancerStatus", "Of a cluster."),
    ),
    _CORE + "LoadBalancerStatus": struct(
        "Of a cluster.",
        ingress=array("Entry points.", ref(_CORE + "LoadBalancerIngress", "An entry point.")),
    ),
    _CORE + "LoadBalancerIngress": struct(
        "An entry point.",
        hostname=text("Host name."),
        ip=text("Address."),
        ipMode=text("How the address is handled."),
    ),
    INT_OR_STRING: {
        "description": "Number or name of a port.",
        "type": "string",
        "format": "int-or-string",
    },
}

_PLAIN: Final[dict[str, Schema]] = {
    _CORE + "ConfigMap": top(
        CONFIG_MAP,
        "Settings that a Broker may refer to. They are stored but not read.",
        {
            "data": texts("Texts by key."),
            "binaryData": texts("Bytes by key, base64.", format="byte"),
            "immutable": flag("`data` and `binaryData` cannot be changed."),
        },
    ),
    _CORE + "Secret": top(
        SECRET,
        f"Secret values, for sinks of the same namespace that the annotation `{SINKS}` lists."
        " Values are sealed when they are stored and never shown: reading gives an empty value for"
        " each key, and writing an empty value keeps the stored one.",
        {
            "data": texts("Values by key, base64.", format="byte"),
            "stringData": texts("Values by key as text; write-only, merged into `data`."),
            "immutable": flag("The values cannot be changed."),
            "type": text("Type, for programs. Default: Opaque."),
        },
    ),
    _CORE + "Namespace": top(
        NAMESPACE,
        "A scope for names. It is created with the first object in it; deleting it deletes all"
        " objects in it.",
        {
            "spec": ref(_CORE + "NamespaceSpec", "Desired state." + _NOT_USED),
            "status": ref(_CORE + "NamespaceStatus", "Observed state."),
        },
    ),
    _CORE + "NamespaceSpec": struct(
        "Spec of a Namespace.", finalizers=array("Finalizers of the Namespace." + _NOT_USED)
    ),
    _CORE + "NamespaceStatus": struct(
        "Status of a Namespace.",
        conditions=keyed("dev.knative.pkg.apis.duck.v1.Condition", "Aspects of it.", "type"),
        phase=one_of("Whether it is being deleted.", "Active", "Terminating"),
    ),
}

_EVENT: Final[dict[str, Schema]] = {
    _CORE + "Event": top(
        EVENT,
        "Something that happened to an object, such as failing deliveries. Deleted an hour after"
        " its last update.",
        {
            "action": text("What was done."),
            "count": whole("How often it happened.", bits=32),
            "eventTime": time("When it first happened."),
            "firstTimestamp": time("When it first happened."),
            "involvedObject": ref(_CORE + "ObjectReference", "The object that it happened to."),
            "lastTimestamp": time("When it last happened."),
            "message": text("A sentence for people."),
            "reason": text("A word for programs."),
            "related": ref(_CORE + "ObjectReference", "Another object concerned."),
            "reportingComponent": text("Component that reports it."),
            "reportingInstance": text("Instance of that component."),
            "series": ref(_CORE + "EventSeries", "Repetitions of it."),
            "source": ref(_CORE + "EventSource", "Component that reports it."),
            "type": text("`Normal` or `Warning`."),
        },
    ),
    _CORE + "ObjectReference": struct(
        "A reference to an object, or to a part of it.",
        apiVersion=text("API version of the object."),
        fieldPath=text("Part of the object."),
        kind=text("Kind of the object."),
        name=text("Name of the object."),
        namespace=text("Namespace of the object."),
        resourceVersion=text("Version of the object."),
        uid=text("`metadata.uid` of the object."),
    ),
    _CORE + "EventSeries": struct(
        "Repetitions of an Event.",
        count=whole("How often it happened.", bits=32),
        lastObservedTime=time("When it last happened."),
    ),
    _CORE + "EventSource": struct(
        "A component.", component=text("Its name."), host=text("Its host.")
    ),
}
_EVENT[_CORE + "Event"]["required"] = ["metadata", "involvedObject"]

CORE: Final[dict[str, Schema]] = _SERVICE | _PLAIN | _EVENT
"""Definitions by name."""
