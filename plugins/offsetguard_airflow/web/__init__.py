"""What our pages share: the app behind Airflow's login, protection of forms, what the pages of incidents show."""
