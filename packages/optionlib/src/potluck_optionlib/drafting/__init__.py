"""Option libraries drafted by a language model, screened, played in a child process and repaired by evidence."""
