"""Melting Pot: the real dm-meltingpot engine on dmlab2d, two substrates of seven agents, behind typed options."""

from potluck_envs.meltingpot.games import MeltingPotProvider

provider = MeltingPotProvider()
