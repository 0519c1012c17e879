"""Fast versions ("twins") of plain code that give the same values and gradients;
`install` enables them.
"""
