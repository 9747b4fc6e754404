"""The Kubernetes-shaped API over HTTP: discovery, objects, watches. Parse, call, render.

Mounted by ``server``; called by kubectl and other clients of Kubernetes. Hides paths, parameters,
forms of answers, and how watches share what they write. What objects are, ``knative.kinds``
and ``apiserver.machinery`` know; where they stand and who changes them, ``apiserver.objects``.
"""

from distributary.knative.apiserver.http._api import PATHS, KubernetesApi
from distributary.knative.apiserver.http._deletes import Settled
