"""A plain decoder's packed forward, told once: the policy server scores menus with it, and the trainer's learner takes
its gradients from the very same operations, so that both compute the same bits.

It lives beside the contracts because trainer and policy server may not import each other. It needs torch and numpy (the
extra `decoder`); nothing else of `potluck` imports it.
"""
