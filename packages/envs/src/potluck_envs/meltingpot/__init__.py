"""Melting Pot: the real dm-meltingpot engine on dmlab2d, two substrates of seven agents."""
