"""The gallery, which draws the parts: ``docs/parts.md`` with its pictures, and a page of pictures that move.

``python docs/_extensions/draw_parts.py`` writes the first, which is committed. The second lies beside the pages of the
site, is shown in the first, and each part there links to its place on it. It is written when a build of the site ends.
"""
