"""potluck_policy_server"""
