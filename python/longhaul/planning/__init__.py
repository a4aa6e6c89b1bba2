"""What a network of nodes, or a choice of schedule, codec and outer step, would deliver."""
