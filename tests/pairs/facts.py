# SPDX-License-Identifier: BSD-3-Clause
"""What contexts and measures share: named, with facts that their classes declare."""


class Named:
    """Has a name and facts; a keyword that is no attribute of its class is a mistake."""

    def __init__(self, name, **facts):
        self.name = name
        for key, value in facts.items():
            assert hasattr(self, key), key
            setattr(self, key, value)

    def refuses(self, case):
        """A reason why it is not for the case, or None."""
        return None


def by_name(*modules, attribute):
    """name -> what the modules list under `attribute`."""
    return {one.name: one for module in modules for one in getattr(module, attribute)}
