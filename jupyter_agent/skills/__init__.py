"""Skills: instructions with scripts and references, which a model loads when it needs them.

By the public Agent Skills specification (agentskills.io/specification), and lenient where its
guide for clients asks for it. `frontmatter` reads one SKILL.md, `folder` what lies beside it,
`discovery` finds all of them, `prompt` is what a model reads of them, `session` what one session
holds, `importing` lets code import their scripts.
"""
