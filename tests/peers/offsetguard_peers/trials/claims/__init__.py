"""What is said, compared with what is so: a checker that reads sentences as people do, and knows what was staged.

    checker = Checker(truth)
    checker.read("mail 3", mail.text, Round(began, ended))  # or the subject and the text below it
    checker.false       # sentences that were not so: none should be there

Every line of a mail, a Slack message or a page is compared with the texts of the rules: each template is a pattern, so
that a sentence gives its rule and its figures, whatever words it has today. A figure is compared with what the broker
itself said within a round before (FIGURES), a word of state ("offline", "lost", "is gone") with what was staged
(STATES), "It was: ..." with a trouble that must be over. What has no group in it is the cluster's.

Not here: whether everything was said. The soak and the blind run count what is missed.
"""
