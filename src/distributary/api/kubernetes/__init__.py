"""The Kubernetes-shaped API over HTTP: discovery, objects, watches."""
