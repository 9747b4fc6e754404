"""The Kubernetes-style API over HTTP: discovery, objects, watches. Parse, call, render.

Mounted by ``server``; used by kubectl and other clients of Kubernetes. Hides paths, parameters,
response formats, and how watches share encoded changes. ``knative.kinds`` and
``apiserver.machinery`` define objects; ``apiserver.objects`` stores and changes them.
"""

from distributary.knative.apiserver.http._api import PATHS, KubernetesApi
from distributary.knative.apiserver.http._api_subscriptions import ShownSubscription
