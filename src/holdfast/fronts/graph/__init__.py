"""State graphs: nodes that change a state, and edges that say which comes next."""
