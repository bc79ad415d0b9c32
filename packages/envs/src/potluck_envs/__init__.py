"""potluck_envs"""
