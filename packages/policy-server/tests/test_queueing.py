"""Lines of clients: turns, room, and who gives way when there is none."""

import random
from dataclasses import dataclass, field

from potluck_policy_server.queueing import FairQueue


@dataclass(eq=False)
class Ask:
    client: str
    size: int
    queries: list = field(init=False)

    def __post_init__(self):
        self.queries = [None] * self.size


def filled(limit, **lines):
    queue = FairQueue(limit)
    for client, sizes in lines.items():
        for size in sizes:
            assert queue.push(Ask(client, size)) == []
    return queue


def names(queue):
    found = []
    while queue:
        found.append(queue.pop().client)
    return "".join(found)


def test_clients_take_turns_in_the_order_of_their_coming():
    assert names(filled(100, a=[1] * 3, b=[2], c=[1] * 2)) == "abcaca"


def test_the_longest_line_gives_its_newest_for_a_newcomer():
    queue = filled(10, a=[2, 2, 4], b=[2])
    newest = queue._lines["a"][-1]
    assert queue.push(Ask("c", 3)) == [newest]
    assert (queue.waiting, queue.room) == (9, 1)
    assert names(queue) == "abca"


def test_who_has_the_longest_line_is_refused_and_nothing_changes():
    queue = filled(10, a=[2, 2, 4], b=[2])
    assert queue.push(Ask("a", 1)) is None
    assert queue.push(Ask("b", 7)) is None  # it would have 9, more than all that a has
    assert queue.waiting == 10
    assert names(queue) == "abaa"


def test_several_give_way_or_none():
    queue = filled(8, a=[1] * 8)
    assert queue.push(Ask("b", 5)) is None  # a would be left with 3
    assert [one.client for one in queue.push(Ask("b", 4)) or ()] == ["a"] * 4
    assert queue.push(Ask("b", 1)) is None
    assert queue.push(Ask("c", 9)) is None


def test_out_of_turn_and_all_at_once():
    queue = filled(10, a=[1, 2], b=[3])
    first = queue.first()
    assert queue.withdraw(first)
    assert not queue.withdraw(first)
    assert queue.waiting == 5
    assert [one.size for one in queue.clear()] == [2, 3]
    assert (queue.waiting, queue.first(), queue.push(Ask("c", 10))) == (0, None, [])


def test_counts_hold_over_any_history():
    rng, queue, held = random.Random(0), FairQueue(40), []
    for _ in range(3000):
        if rng.random() < 0.6:
            ask = Ask(rng.choice("abcd"), rng.randint(1, 9))
            if (away := queue.push(ask)) is not None:
                held = [one for one in held if one not in away] + [ask]
        elif queue:
            one = queue.pop() if rng.random() < 0.7 else rng.choice(held)
            queue.withdraw(one)
            held.remove(one)
        assert queue.waiting == sum(one.size for one in held) <= 40
        assert bool(queue) == bool(held)
