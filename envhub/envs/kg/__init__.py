"""The KG environment: multi-hop questions over a knowledge graph, by tools that build sets of entities."""
