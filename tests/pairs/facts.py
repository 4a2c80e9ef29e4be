# SPDX-License-Identifier: BSD-3-Clause
"""The base class of contexts and measures."""


class Named:
    """Has a name, and attributes that keyword arguments set; the class must declare them."""

    def __init__(self, name, **facts):
        self.name = name
        for key, value in facts.items():
            assert hasattr(self, key), key
            setattr(self, key, value)

    def refuses(self, case):
        """Returns why this context or measure does not apply to the case; None if it does."""
        return None


def by_name(*modules, attribute):
    """name -> what the modules list under `attribute`; one that hid another would go untried."""
    every = [one for module in modules for one in getattr(module, attribute)]
    found = {one.name: one for one in every}
    assert len(found) == len(every), sorted(o.name for o in every if found[o.name] is not o)
    return found
