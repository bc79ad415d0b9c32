"""Makes and checks the embedded backbone `tiny`: vocabulary, made-up games, pre-training, evaluation."""
