"""The client side of a game: episodes played in lockstep waves through env servers and one policy server.

async with EnvPool(["127.0.0.1:7001"]) as envs, PolicyClient("127.0.0.1:7002") as policy:
    specs = [EpisodeSpec("e0", "overcooked/forced_coordination", seed=7, policies={"agent_0": adapter(digest), ...})]
    results = await play(specs, envs, policy, PlayOptions(temperature=0.9))
"""
