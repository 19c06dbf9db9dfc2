"""`jupyter agent doctor`: whether everything is in place, and what to do where it is not."""
