"""The cases, a module for each subject; the import of this package adds all of them."""

from cases import attributes, discovery, dns, health, inputs, instances, lists, namespaces, operations, services, tags

__all__ = ["attributes", "discovery", "dns", "health", "inputs", "instances", "lists", "namespaces", "operations", "services", "tags"]
