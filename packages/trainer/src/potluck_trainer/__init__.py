"""potluck_trainer"""
