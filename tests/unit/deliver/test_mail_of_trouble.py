"""From facts to the mail that an SMTP server received: the curve in it is the lag that was staged."""

from offsetguard_peers.pictures.mail import ORDER_GROUP, staged
from offsetguard_peers.smtp.inbox import html_with_pictures


def test_a_group_that_stops_gives_one_mail_with_the_course_of_its_lag() -> None:
    with staged(ORDER_GROUP, time_zone="Asia/Shanghai") as stage:
        (mail,) = stage.play(12)
    assert mail.message["Subject"] == "[CRITICAL] orders-cluster · order-group · consumers are offline"
    assert [part.get_content_type() for part in mail.message.walk()][-2:] == ["text/html", "image/png"]
    course = (
        "Lag of order-group in the queues that are behind, 2026-11-21 14:30:05 to 14:39:05 UTC+8: 0 at first, "
        "at most 12,032 at 14:39"
    )
    assert course in mail.text
    shown = html_with_pictures(mail)
    assert "data:image/png;base64," in shown
    assert "cid:" not in shown
