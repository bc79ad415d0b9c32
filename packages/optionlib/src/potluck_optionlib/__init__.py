"""potluck_optionlib"""
