"""potluck_audit"""
