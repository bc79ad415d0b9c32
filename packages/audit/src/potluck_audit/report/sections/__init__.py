"""The report's sections, one a file: each turns a view of the results into a heading and its content."""
