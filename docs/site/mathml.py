"""Formulas as MathML, which browsers draw themselves: without script or network."""

from html import escape

from latex2mathml.converter import convert


def setup(app):
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def inline(writer, node):
    writer.body.append(mathml(node.astext(), "inline"))
    raise_skip()


def block(writer, node):
    writer.body.append(f'<div class="formula">{mathml(node.astext(), "block")}</div>')
    raise_skip()


def mathml(latex, display):
    """Return a formula as MathML; its LaTeX is its alternative text."""
    formula = convert(latex, display=display)
    return formula.replace("<math ", f'<math alttext="{escape(latex.strip())}" ', 1)


def raise_skip():
    from docutils.nodes import SkipNode

    raise SkipNode
