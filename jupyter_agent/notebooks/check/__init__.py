"""`jupyter agent check`: whether notebooks with turns of the agent are whole."""
