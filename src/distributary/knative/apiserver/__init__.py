"""The API of Kubernetes in small: its machinery, the objects in the store, and HTTP."""
